package tempura;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.optimizer.SpecialDatetimeValues$;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.CompoundBody;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ParsedStatement;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.types.Metadata;
import scala.collection.Iterator;

/** What is in a plan and in the plans of its sub-queries. */
public final class Walk {
    /** Whether a statement is something else than a query. */
    public boolean isCommand(LogicalPlan plan) {
        return plan instanceof Command || plan instanceof ParsedStatement || plan instanceof CompoundBody;
    }

    /** Whether a node has one of Catalyst's tree patterns somewhere. */
    public boolean has(TreeNode node, String pattern) {
        return node.containsPattern(TreePattern.withName(pattern));
    }

    /** The plan and those of its sub-queries. */
    public List plans(LogicalPlan plan) {
        List<LogicalPlan> found = new ArrayList<LogicalPlan>();
        found.add(plan);
        Iterator below = plan.subqueriesAll().iterator();
        while (below.hasNext()) {
            found.add((LogicalPlan) below.next());
        }
        return found;
    }

    /** All leaves. */
    public List leaves(LogicalPlan plan) {
        List<LogicalPlan> found = new ArrayList<LogicalPlan>();
        for (Object part : plans(plan)) {
            Iterator leaves = ((LogicalPlan) part).collectLeaves().iterator();
            while (leaves.hasNext()) {
                found.add((LogicalPlan) leaves.next());
            }
        }
        return found;
    }

    /** The table of a leaf, which the metadata of its columns names; "" for others. */
    public static String table(LogicalPlan leaf, String marker) {
        String name = leaf.getClass().getSimpleName();
        boolean reference = name.equals("CTERelationRef") || name.equals("UnionLoopRef"); // to columns that may be those of a table
        if (reference || !leaf.children().isEmpty() || leaf.output().isEmpty()) {
            return "";
        }
        Metadata metadata = ((Attribute) leaf.output().apply(0)).metadata();
        return metadata.contains(marker) ? metadata.getString(marker) : "";
    }

    /** A leaf that is neither of a table nor of one of the classes with these simple names, a line each; null without one. */
    public LogicalPlan otherSource(LogicalPlan plan, String marker, String constant) {
        List names = Arrays.asList((Object[]) constant.split("\n"));
        for (Object leaf : leaves(plan)) {
            if (table((LogicalPlan) leaf, marker).isEmpty() && !names.contains(leaf.getClass().getSimpleName())) {
                return (LogicalPlan) leaf;
            }
        }
        return null;
    }

    /** A sample that may leave out a row, or take one twice; null without one. */
    public Sample sample(LogicalPlan plan) {
        for (Object operator : operators(plan)) {
            if (operator instanceof Sample) {
                Sample sample = (Sample) operator;
                if (sample.withReplacement() || sample.lowerBound() > 0 || sample.upperBound() < 1) {
                    return sample;
                }
            }
        }
        return null;
    }

    /** The texts of the views that are read. */
    public List viewTexts(LogicalPlan plan) {
        List<String> found = new ArrayList<String>();
        for (Object operator : operators(plan)) {
            if (operator instanceof View && ((View) operator).desc().viewText().isDefined()) {
                found.add((String) ((View) operator).desc().viewText().get());
            }
        }
        return found;
    }

    /**
     * Whether a plan is of more than its text says: of views, other than those that stand for tables, or of functions that are not Spark's,
     * with these simple names, a line each.
     */
    public boolean hasDefinitions(LogicalPlan plan, String functions, String marker) {
        for (Object operator : operators(plan)) {
            if (operator instanceof View && table(((View) operator).child(), marker).isEmpty()) {
                return true;
            }
            if (operator.getClass().getSimpleName().equals("SQLFunctionNode")) {
                return true;
            }
        }
        return !expressions(plan, functions + "\nSQLScalarFunction").isEmpty();
    }

    /** Whether a text stands where a time is meant, such as 'today'. */
    public boolean hasTimeWords(LogicalPlan plan) {
        for (Object part : plans(plan)) {
            LogicalPlan same = (LogicalPlan) SpecialDatetimeValues$.MODULE$.apply((LogicalPlan) part);
            if (!same.fastEquals((LogicalPlan) part)) {
                return true;
            }
        }
        return false;
    }

    /** Every expression of the classes with these simple names, a line each. */
    public List expressions(LogicalPlan plan, String names) {
        List<Expression> found = new ArrayList<Expression>();
        List named = Arrays.asList((Object[]) names.split("\n"));
        for (Object one : expressions(plan)) {
            if (named.contains(one.getClass().getSimpleName())) {
                found.add((Expression) one);
            }
        }
        return found;
    }

    /** Every expression. */
    public List expressions(LogicalPlan plan) {
        List<Expression> found = new ArrayList<Expression>();
        for (Object operator : operators(plan)) {
            Iterator expressions = ((LogicalPlan) operator).expressions().iterator();
            while (expressions.hasNext()) {
                collect((Expression) expressions.next(), found);
            }
        }
        return found;
    }

    /** The expressions with a pattern of which no operand has it. */
    public List innermost(LogicalPlan plan, String pattern) {
        List<Expression> found = new ArrayList<Expression>();
        for (Object one : expressions(plan)) {
            Expression expression = (Expression) one;
            boolean below = false;
            Iterator children = expression.children().iterator();
            while (children.hasNext()) {
                below = has((TreeNode) children.next(), pattern) || below;
            }
            if (!below && has(expression, pattern)) {
                found.add(expression);
            }
        }
        return found;
    }

    private List operators(LogicalPlan plan) {
        List<LogicalPlan> found = new ArrayList<LogicalPlan>();
        for (Object part : plans(plan)) {
            ArrayDeque<LogicalPlan> stack = new ArrayDeque<LogicalPlan>();
            stack.push((LogicalPlan) part);
            while (!stack.isEmpty()) {
                LogicalPlan operator = (LogicalPlan) stack.pop();
                found.add(operator);
                Iterator children = operator.children().iterator();
                while (children.hasNext()) {
                    stack.push((LogicalPlan) children.next());
                }
            }
        }
        return found;
    }

    private static void collect(Expression expression, List found) {
        found.add(expression);
        Iterator children = expression.children().iterator();
        while (children.hasNext()) {
            collect((Expression) children.next(), found);
        }
    }

    /** The types of the columns that an operator gets and reads; of its leaves, all columns. */
    public List typesRead(LogicalPlan plan) {
        List<String> found = new ArrayList<String>();
        Iterator children = plan.children().iterator();
        while (children.hasNext()) {
            LogicalPlan child = (LogicalPlan) children.next();
            Iterator columns = child.output().iterator();
            while (columns.hasNext()) {
                Attribute column = (Attribute) columns.next();
                if (!child.children().isEmpty() || plan.references().contains(column)) {
                    found.add(column.dataType().catalogString());
                }
            }
        }
        return found;
    }
}
