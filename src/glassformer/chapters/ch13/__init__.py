"""Everything that chapter 13 adds to the package."""
