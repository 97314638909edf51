"""What several tests share: problems by hand, drawn data, child processes."""
