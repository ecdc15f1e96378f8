"""Names by which the agent publishes hardware faults, and by which others read them."""

from __future__ import annotations

POD_CONDITION = "zonewise.dev/HardwareFault"
"""The type of the condition of a pod. It is True where hardware or driver is at fault, False where it is the program,
Unknown where neither is known. A Job's podFailurePolicy reacts to it by onPodConditions."""
TAINT = "zonewise.dev/hardware-fault"
"""The taint of a node while one of its devices has failed, where that is configured."""

GPU_FAULT, FABRIC_DEGRADED = "GPUHardwareFault", "FabricLinkDegraded"
MEMORY_FAULT, CPU_FAULT = "MemoryHardwareFault", "CPUHardwareFault"
INVENTORY_DRIFT = "HardwareInventoryDrift"
NODE_CONDITIONS = (GPU_FAULT, FABRIC_DEGRADED, MEMORY_FAULT, CPU_FAULT, INVENTORY_DRIFT)
"""The types of the conditions of a Node. Each is True while a device of its kind is degraded or has failed."""
NO_FAULT = "NoFault"
"""The reason of a condition of a Node that is False."""

AGENT_COMPONENT = "zonewise-agent"
"""The source of the Events that the agent writes, and its field manager."""
