"""Everything that chapter 15 adds to the package."""
