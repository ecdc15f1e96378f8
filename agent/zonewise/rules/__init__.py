"""Rules of Node Feature Discovery (NodeFeatureRule, NodeFeatureGroup), evaluated over the raw features of one node.

Everything except the regular expressions is pure Python without input or output: `parse_objects(documents) -> objects`,
`evaluate(objects, features) -> Evaluation`.
"""
