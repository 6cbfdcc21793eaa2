"""Everything that chapter 11 brings to the package."""
