"""Everything that chapter 14 brings to the package."""
