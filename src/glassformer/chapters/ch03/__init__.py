"""Everything that chapter 03 adds to the package."""
