"""Everything that chapter 18 adds to the package."""
