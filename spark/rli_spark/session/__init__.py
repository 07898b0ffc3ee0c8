"""What a Spark session offers: frames of Arrow tables, tasks, executors, and what differs in Spark Connect."""
