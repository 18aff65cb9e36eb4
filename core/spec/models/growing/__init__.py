"""The section `grow` of a model: kinds of vertices created while it runs."""
