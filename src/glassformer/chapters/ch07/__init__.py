"""Everything that chapter 07 adds to the package."""
