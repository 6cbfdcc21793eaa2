"""Everything that chapter 17 adds to the package."""
