"""Everything that chapter 12 adds to the package."""
