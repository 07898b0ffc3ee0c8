"""The index follows the timeline: sync, bootstrap, verification and repair."""
