"""How a write becomes visible: transaction, conflicts, lease, recovery of dead writers."""
