"""The optional features of a master, one folder for each.

Inside a feature, `model` has its rows, `views` what the API shows, `rules` its decisions (pure),
and `service` what the API calls.
"""
