"""Adapters: agents of other frameworks that let armscope choose their tools and record their requests."""
