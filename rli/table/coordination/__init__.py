"""Between processes: who is alive, who has the lease, what dead ones left, what waiters wait for."""
