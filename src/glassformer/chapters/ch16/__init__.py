"""Everything that chapter 16 adds to the package."""
