"""Reports of the live queue: statuses of queues, reasons why workloads wait, Events. Nothing here makes decisions."""
