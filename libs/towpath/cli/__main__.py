"""`python -m towpath.cli`, where the script isn't on the path."""

import sys

from towpath.cli import main

sys.exit(main())
