"""Everything that chapter 14 adds to the package."""
