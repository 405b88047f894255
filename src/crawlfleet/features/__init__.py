"""What could be switched off: one folder for each feature.

Inside a feature, `model` has its rows, `views` what the API shows, `rules` its decisions (pure),
and `service` what the API calls.
"""
