package tempura;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedStar;
import org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.JoinType$;
import org.apache.spark.sql.catalyst.plans.LeftSingle$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedHint;
import org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Logical plans that are not analysed yet, and their expressions. Columns come as {@code items}, each ended by a zero: the name of a column that stays; two names
 * with a one in between, of a column and what it is called from now on; or a two, for the next of {@code columns}.
 */
public final class Plans {
    private static final String AS = "\u0001";
    private static final String VALUE = "\u0002";

    /** Some columns of each row. */
    public LogicalPlan project(LogicalPlan input, String items, List columns) {
        return new Project(Given.seq(named(items, columns)), input);
    }

    /** All columns of each row, and more. */
    public LogicalPlan extended(LogicalPlan input, List columns) {
        List all = new ArrayList();
        all.add(new UnresolvedStar(Option.empty()));
        for (int i = 0; i < columns.size(); i++) {
            all.add(named(expression(columns.get(i))));
        }
        return new Project(Given.seq(all), input);
    }

    /** The columns under other names, as many as there are. */
    public LogicalPlan renamed(LogicalPlan input, String names) {
        List all = new ArrayList();
        for (String name : Given.texts(names)) {
            all.add(name);
        }
        return new UnresolvedSubqueryColumnAliases(Given.seq(all), input);
    }

    /** The rows for which a condition is TRUE. */
    public LogicalPlan filter(LogicalPlan input, Column condition) {
        return new Filter(expression(condition), input);
    }

    /** A join of a kind that SQL names; {@code on} may be null. */
    public LogicalPlan join(LogicalPlan left, LogicalPlan right, String kind, Column on) {
        return join(left, right, JoinType$.MODULE$.apply(kind), on == null ? null : expression(on));
    }

    /** Each row of the left, and in a new column whether some row of the right makes the condition TRUE. */
    public LogicalPlan exists(LogicalPlan left, LogicalPlan right, Expression on, String marker) {
        Object[] given = {marker, DataTypes.BooleanType, Boolean.FALSE, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), Given.none()};
        AttributeReference column = (AttributeReference) Given.made(AttributeReference.class, given);
        return join(left, right, new ExistenceJoin(column), on);
    }

    /** The left outer join that fails when a row of the left matches two rows. */
    public LogicalPlan single(LogicalPlan left, LogicalPlan right, Expression on) {
        return join(left, right, LeftSingle$.MODULE$, on);
    }

    /** The rows of all inputs, column by column. */
    public LogicalPlan union(List inputs) {
        return new Union(Given.seq(inputs), false, false);
    }

    /** A row per group of equal {@code keys}: they, and aggregates. */
    public LogicalPlan aggregate(LogicalPlan input, String keys, List aggregates) {
        List groups = attributes(keys);
        List outputs = new ArrayList(groups);
        for (int i = 0; i < aggregates.size(); i++) {
            outputs.add(named(expression(aggregates.get(i))));
        }
        return aggregate(Given.seq(groups), Given.seq(outputs), input);
    }

    /** The same of what is at hand. */
    public static LogicalPlan aggregate(Seq groups, Seq outputs, LogicalPlan input) {
        return (LogicalPlan) Given.made(Aggregate.class, new Object[] {groups, outputs, input});
    }

    /** Each row once. */
    public LogicalPlan distinct(LogicalPlan input) {
        return new Distinct(input);
    }

    /** The rows in an order, whose keys are columns with a direction. */
    public LogicalPlan sort(LogicalPlan input, List keys) {
        List orders = new ArrayList();
        for (int i = 0; i < keys.size(); i++) {
            orders.add(expression(keys.get(i)));
        }
        return (LogicalPlan) Given.made(Sort.class, new Object[] {Given.seq(orders), Boolean.TRUE, input});
    }

    /** The first rows. */
    public LogicalPlan limit(LogicalPlan input, int rows) {
        Expression number = Literal$.MODULE$.apply(rows);
        return new GlobalLimit(number, new LocalLimit(number, input));
    }

    /** The same rows, and no condition is moved down into them: a sample of all. What a sample is made of differs between versions. */
    public LogicalPlan fenced(LogicalPlan input) throws Exception {
        LogicalPlan plan = CatalystSqlParser$.MODULE$.parsePlan("SELECT * FROM x TABLESAMPLE (100 PERCENT) REPEATABLE (0)");
        LogicalPlan sample = (LogicalPlan) plan.children().apply(0);
        return (LogicalPlan) sample.withNewChildren(Given.seq(Collections.singletonList(input)));
    }

    /** The same rows, with a hint to Spark. */
    public LogicalPlan hint(LogicalPlan input, String name) {
        return new UnresolvedHint(name, Given.none(), input);
    }

    /** The rows with equal {@code keys} in the same of so many partitions. */
    public LogicalPlan partitioned(LogicalPlan input, int partitions, String keys) {
        return new RepartitionByExpression(Given.seq(attributes(keys)), input, Option.apply(partitions), Option.empty());
    }

    public LogicalPlan gathered(LogicalPlan input, int partitions) {
        return new Repartition(partitions, false, input);
    }

    /** An expression over other operands. One that asks for their types when it is made gets them said, by casts that change nothing. */
    public Expression over(Expression expression, List operands, String types) throws Exception {
        try {
            return (Expression) expression.withNewChildren(Given.seq(operands));
        } catch (Exception error) {
            if (!(error instanceof UnresolvedException)) {
                throw error;
            }
        }
        String[] texts = Given.texts(types);
        List typed = new ArrayList();
        for (int i = 0; i < texts.length; i++) {
            Expression operand = (Expression) operands.get(i);
            typed.add(new Cast(operand, CatalystSqlParser$.MODULE$.parseDataType(texts[i]), Option.empty(), EvalMode.LEGACY()));
        }
        return (Expression) expression.withNewChildren(Given.seq(typed));
    }

    private static LogicalPlan join(LogicalPlan left, LogicalPlan right, JoinType kind, Expression on) {
        return new Join(left, right, kind, Option.apply(on), JoinHint.NONE());
    }

    private static List attributes(String names) {
        List found = new ArrayList();
        for (String name : Given.texts(names)) {
            found.add(attribute(name));
        }
        return found;
    }

    private static List named(String items, List columns) {
        List found = new ArrayList();
        int next = 0;
        for (String item : Given.texts(items)) {
            int as = item.indexOf(AS);
            if (item.equals(VALUE)) {
                found.add(named(expression(columns.get(next++))));
            } else if (as < 0) {
                found.add(attribute(item));
            } else {
                found.add(alias(attribute(item.substring(0, as)), item.substring(as + 1)));
            }
        }
        return found;
    }

    private static NamedExpression named(Expression value) {
        return value instanceof NamedExpression ? (NamedExpression) value : new UnresolvedAlias(value, Option.empty());
    }

    private static Object alias(Expression value, String name) {
        Object[] given = {value, name, NamedExpression$.MODULE$.newExprId(), Given.none(), Option.empty(), Given.none()};
        return Given.made(Alias.class, given);
    }

    private static UnresolvedAttribute attribute(String name) {
        List parts = new ArrayList();
        parts.add(name);
        return new UnresolvedAttribute(Given.seq(parts));
    }

    private static Expression expression(Object column) {
        return ColumnNodeToExpressionConverter$.MODULE$.apply(((Column) column).node());
    }
}
