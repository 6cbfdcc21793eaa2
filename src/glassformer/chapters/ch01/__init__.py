"""Everything that chapter 01 adds to the package."""
