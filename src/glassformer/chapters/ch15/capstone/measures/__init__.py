"""What the stages measure with. Nothing here knows a stage, and only `comparing` names a mistake."""
