"""What models cost by the operator's word."""
