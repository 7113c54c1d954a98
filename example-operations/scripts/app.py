import json
from wit_world import exports
from wit_world.exports import operations
from wit_world.imports.types import Effects


class Operations(exports.Operations):
    def describe(self):
        return [operations.OperationDescription(
            id="script/sum",
            summary="Adds numbers",
            arguments_schema=json.dumps({"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "number"}}}, "required": ["numbers"]}),
            data_schema=json.dumps({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}),
            effects=Effects.PURE,
        )]

    def invoke(self, id, arguments, context):
        return operations.Success(data=json.dumps({"sum": sum(json.loads(arguments)["numbers"])}), summary=None, details=None)
