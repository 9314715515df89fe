"""One module per outside thing: run tables, budget tables, prices of models, webhooks."""
