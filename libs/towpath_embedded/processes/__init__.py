"""Child processes of the platform: how they are started, supervised and forked, and the ports that they listen on."""
