"""A posterior as one page of HTML that needs no other file.

- `report`: writes the page, and puts the verdict at its head.
- `components`: the table of components.
- `sections`: the numbers of the other sections, as tables and facts.
- `pictures`: the pictures, inside the page, or why one is missing.
- `page`: what any page is made of (tables, pictures, badges), laid out by jinja2; `studies` has pages of its own.
- `templates/`: the layouts.
"""
