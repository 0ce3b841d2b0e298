"""What is shown to people: pictures, pages and words.

- `plots/`: pictures of a posterior and of a training run; `slotflow.plots` is their public door.
- `report/`: a posterior as one page of HTML, and the templates that other pages use too.
- `wording`: numbers, the answer and the state of the data in words, for the terminal, pictures and pages alike.
- `advice`: what a verdict says, and what to do about it.
"""
