"""Routes for those who operate the platform: worker processes, costs, and numbers of the last hour."""
