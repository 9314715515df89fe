"""Proposals of a task's own grant: whoever submits the task looks at one and decides; a proposal gives no rights."""
