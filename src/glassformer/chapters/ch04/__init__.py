"""Everything that chapter 04 brings to the package."""
