"""From the network's answer to the exact one."""
