"""Everything that chapter 10 adds to the package."""
