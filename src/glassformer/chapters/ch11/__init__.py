"""Everything that chapter 11 adds to the package."""
