"""The engine on a cluster: Spark."""
