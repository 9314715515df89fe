"""The cause and the example of each problem code; a code without one does not pass the tests."""

from towpath_contracts.problems.examples.access_examples import ACCESS_EXAMPLES
from towpath_contracts.problems.examples.network_examples import NETWORK_EXAMPLES
from towpath_contracts.problems.examples.process_examples import PROCESS_EXAMPLES
from towpath_contracts.problems.examples.request_examples import REQUEST_EXAMPLES
from towpath_contracts.problems.examples.run_examples import RUN_EXAMPLES

EXAMPLES = REQUEST_EXAMPLES | NETWORK_EXAMPLES | RUN_EXAMPLES | ACCESS_EXAMPLES | PROCESS_EXAMPLES
"""By code, of the whole registry."""
