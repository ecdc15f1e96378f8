"""What the live queue tells: statuses of queues, why workloads wait, Events. Nothing here decides anything."""
