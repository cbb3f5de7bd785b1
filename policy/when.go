package policy

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/interpreter"
)

// Bounds of an expression. The cost is counted in CEL's units; the longest evaluation it
// lets through takes a few milliseconds.
const (
	maxExpression = 4096    // characters
	maxCost       = 200_000 // enough to look for a text in arguments of a MiB
	maxMemory     = 1 << 20 // elements
	maxRegexp     = 1000
)

// expression is a compiled CEL expression.
type expression struct{ program cel.Program }

// compiler compiles expressions. Its environment takes milliseconds to build, so it is
// built for the first.
type compiler struct{ env *cel.Env }

// environment has CEL's standard functions, which do no I/O and know no time, and no others.
func environment() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.Variable("args", cel.DynType),
		cel.Variable("roles", cel.ListType(cel.StringType)),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.RegexProgramSizeLimit(maxRegexp),
	}
	for _, name := range []string{"tool", "kind", "title", "agent", "session", "tenant", "user"} {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	return cel.NewEnv(options...)
}

// compile refuses what is not certain to give a bool. Such an expression may fail on a call, and a rule whose
// expression fails blocks or asks where its author wrote a condition.
func (c *compiler) compile(text string) (*expression, error) {
	if c.env == nil {
		env, err := environment()
		if err != nil {
			return nil, err
		}
		c.env = env
	}
	ast, issues := c.env.Compile(text)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("it gives %s and not a bool: say what it is compared with", ast.OutputType())
	}
	program, err := c.env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.MemoryLimit(maxMemory))
	if err != nil {
		return nil, err
	}
	return &expression{program}, nil
}

// holds evaluates the expression. An error is one of its own: a member that is not there, a type that does not fit, or a
// bound that was reached. rule.holds decides what that means.
func (e *expression) holds(q *question) (bool, error) {
	out, _, err := e.program.Eval(q)
	if err != nil {
		return false, err
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("policy: the expression gave %v", out.Type())
	}
	return holds, nil
}

// ResolveName implements cel's Activation. Arguments that cannot be read are not there, so
// that an expression which needs them fails.
func (q *question) ResolveName(name string) (any, bool) {
	switch name {
	case "args":
		return q.exprArgs()
	case "tool":
		return q.Tool, true
	case "kind":
		return q.Kind, true
	case "title":
		return q.Title, true
	case "agent":
		return q.AgentID, true
	case "session":
		return q.Session, true
	case "tenant":
		return q.By.Tenant, true
	case "user":
		return q.By.User, true
	case "roles":
		return q.By.Roles, true
	}
	return nil, false
}

// Parent implements cel's Activation.
func (q *question) Parent() interpreter.Activation { return nil }

// exprArgs are the arguments as expressions see them, converted once for all rules.
func (q *question) exprArgs() (any, bool) {
	if q.forExpr == nil {
		value, err := q.args.read(q.Args)
		if err != nil {
			return nil, false
		}
		q.forExpr = forExpression(value)
	}
	return q.forExpr, q.forExpr != nil
}
