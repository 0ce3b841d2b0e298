"""The one way in: from what was measured to posteriors.

`model.infer` and the command line both end here. In the order in which an observation passes through:

- `statement`: what the user says of the prior, in whole, in part or not at all; `request`: of noise, trend, outliers;
- `assume`: the prior and the noise to answer under, completed from the data (`fill`, `band`, `from_data`,
  `noise_choice`), offsets taken out or marginalized (`offsets`), and what was assumed, which the result carries as
  `post.assumed` and `post.noise`; `trained` says where the network has not been trained;
- `run`: the network on many observations at once, the exact step on each, windows for wide or crowded bands
  (`slotflow.bands`), or one of the classical methods instead; `call` is what was asked, `again` what to assume next
  where the first answer is none;
- `each`: many of them one after another: a bad one is named, and one that fails does not end the others;
- `general`: the answer for data that the network cannot read: uneven, complex, coloured, of many channels.
"""
