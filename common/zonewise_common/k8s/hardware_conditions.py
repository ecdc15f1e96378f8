"""Names under which the agent publishes hardware faults and other components read them."""

from __future__ import annotations

POD_CONDITION = "zonewise.dev/HardwareFault"
"""The type of the pod condition. It is True if the hardware or the driver is at fault, False if the program is, and
Unknown if neither is certain. A Job's podFailurePolicy can match it with onPodConditions."""
TAINT = "zonewise.dev/hardware-fault"
"""The taint on a node while one of its devices has failed, if this taint is configured."""

GPU_FAULT, FABRIC_DEGRADED = "GPUHardwareFault", "FabricLinkDegraded"
MEMORY_FAULT, CPU_FAULT = "MemoryHardwareFault", "CPUHardwareFault"
INVENTORY_DRIFT = "HardwareInventoryDrift"
NODE_CONDITIONS = (GPU_FAULT, FABRIC_DEGRADED, MEMORY_FAULT, CPU_FAULT, INVENTORY_DRIFT)
"""Types of the Node conditions. Each is True while a device of its kind is degraded or has failed."""
NO_FAULT = "NoFault"
"""The reason of a Node condition that is False."""

AGENT_COMPONENT = "zonewise-agent"
"""The source of the Events that the agent writes, and the name of its field manager."""
