"""What a warehouse asks of Spark."""
