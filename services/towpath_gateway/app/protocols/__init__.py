"""What clients of other protocols speak: each in a folder, on the functions of the API's own routes."""
