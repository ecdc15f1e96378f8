"""The state of the cluster: objects, assumed pods, waiting pods, gangs and nominations, behind one short lock."""
