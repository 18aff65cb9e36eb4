"""The JSON Schema of model and cell files, for editors; `abw schema` prints it.

It knows a file's keys and the form of their values. Names, links and shapes are checked by
`abw.core.spec.load` alone.
"""
