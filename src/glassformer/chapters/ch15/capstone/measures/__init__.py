"""What the stages measure with. Nothing here knows a stage."""
