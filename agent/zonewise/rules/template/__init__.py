"""The part of Go's text/template that rules use: lexer, parser, functions, execution.

Blocks are if, else, range, with, break, continue, define, template and block. Variables, pipelines, parentheses,
comments and trim markers are as in Go; missing keys are errors (`missingkey=error`), as in NFD's
pkg/apis/nfd/template/template.go. Functions are text/template's, and those of sprig that are useful for labels
(zonewise.rules.template.functions). Everything else is an error that names the construct: methods, complex and
floating-point numbers.
"""
