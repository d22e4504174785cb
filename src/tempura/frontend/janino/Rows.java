package tempura;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.joins.BaseJoinExec;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.BroadcastNestedLoopJoinExec;
import org.apache.spark.sql.execution.joins.ShuffledHashJoinExec;
import org.apache.spark.sql.execution.joins.SortMergeJoinExec;
import org.apache.spark.sql.util.QueryExecutionListener;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * How many rows came out of operators, as Spark counts them anyway. An operator is given a name in the logical plan, which its successors
 * inherit until they run.
 */
public final class Rows implements QueryExecutionListener {
    private static final TreeNodeTag NAME = new TreeNodeTag("tempura.name");

    private final List plans = new ArrayList();
    private final List looked = new ArrayList();
    private int lookedAt;

    /** A plan whose top, a join, aggregation or filter, has a name; if there is none below mere projections, the plan as it is. */
    public LogicalPlan named(LogicalPlan plan, String name) {
        // By constructors: what differs by names only is equal, and would be taken for what it was.
        if (plan instanceof Project) {
            return new Project(((Project) plan).projectList(), named(((Project) plan).child(), name));
        }
        if (plan instanceof UnresolvedSubqueryColumnAliases) {
            UnresolvedSubqueryColumnAliases renaming = (UnresolvedSubqueryColumnAliases) plan;
            return new UnresolvedSubqueryColumnAliases(renaming.outputColumnNames(), named(renaming.child(), name));
        }
        if (plan instanceof Join && ((Join) plan).condition().isDefined()) {
            Join join = (Join) plan;
            Expression on = named((Expression) join.condition().get(), name);
            return new Join(join.left(), join.right(), join.joinType(), Option.apply(on), join.hint());
        }
        if (plan instanceof Filter) {
            return new Filter(named(((Filter) plan).condition(), name), ((Filter) plan).child());
        }
        return plan instanceof Aggregate ? named((Aggregate) plan, name) : plan;
    }

    /** A condition with the name on each part. Parts move: to the input of a projection, to one side of a join; what has a part has its name. */
    private static Expression named(Expression condition, String name) {
        if (condition instanceof And) {
            return new And(named(((And) condition).left(), name), named(((And) condition).right(), name));
        }
        Expression part = (Expression) condition.clone();
        part.setTagValue(NAME, name);
        return part;
    }

    /** An aggregation with the name on all that it computes. */
    private static LogicalPlan named(Aggregate plan, String name) {
        List outputs = new ArrayList();
        Seq given = plan.aggregateExpressions();
        for (int i = 0; i < given.size(); i++) {
            Expression output = (Expression) ((Expression) given.apply(i)).clone();
            nameAll(output, name);
            outputs.add(output);
        }
        return Plans.aggregate(plan.groupingExpressions(), Given.seq(outputs), plan.child());
    }

    private static void nameAll(Expression expression, String name) {
        expression.setTagValue(NAME, name);
        for (int i = 0; i < expression.children().size(); i++) {
            nameAll((Expression) expression.children().apply(i), name);
        }
    }

    /** From now on look at what a session runs. */
    public Rows listen(SparkSession session) {
        Rows listener = new Rows();
        session.listenerManager().register(listener);
        return listener;
    }

    /** Look no longer. */
    public void end(SparkSession session) {
        session.listenerManager().unregister(this);
    }

    /** Look no longer, once all that ran was heard of; what was {@link #counted}, and after an end what was {@link #joined}. */
    public String told(SparkSession session) throws TimeoutException {
        try {
            // Events reach listeners asynchronously.
            session.sparkContext().listenerBus().waitUntilEmpty();
            return counted() + Given.END + joined();
        } finally {
            end(session);
        }
    }

    public synchronized void onSuccess(String function, QueryExecution execution, long nanoseconds) {
        plans.add(execution.executedPlan());
    }

    /** Look at a plan that runs apart, as what is computed once and read in several places. */
    public synchronized void also(QueryExecution execution) {
        plans.add(execution.executedPlan());
    }

    public void onFailure(String function, QueryExecution execution, Exception error) {
    }

    /** A line per named operator that ran: its name, its rows, and the names of the joins that it ran over. */
    public synchronized String counted() {
        Map found = new LinkedHashMap();
        for (Object entry : named()) {
            Found one = (Found) entry;
            Found known = (Found) found.get(one.name);
            if (known == null || known.rows < one.rows) {
                found.put(one.name, one);
            }
        }
        StringBuilder text = new StringBuilder();
        for (Object one : found.values()) {
            Found it = (Found) one;
            text.append(it.name).append(' ').append(it.rows);
            for (Object below : it.below) {
                text.append(' ').append(below);
            }
            text.append('\n');
        }
        return text.toString();
    }

    /** A line per named join that ran, parted by tabs: its name, and how Spark carried it out, each way once. */
    public synchronized String joined() {
        Map found = new LinkedHashMap();
        for (Object entry : named()) {
            Found one = (Found) entry;
            Found known = (Found) found.get(one.name);
            if (known != null) {
                known.ways.addAll(one.ways);
            } else if (!one.ways.isEmpty()) {
                found.put(one.name, one);
            }
        }
        StringBuilder text = new StringBuilder();
        for (Object entry : found.values()) {
            Found it = (Found) entry;
            text.append(it.name);
            for (Object way : it.ways) {
                text.append('\t').append(way);
            }
            text.append('\n');
        }
        return text.toString();
    }

    /** What is named in the plans that ran, in each by itself. Each plan is looked through once. */
    private List named() {
        for (; lookedAt < plans.size(); lookedAt++) {
            Map here = new LinkedHashMap();
            look((SparkPlan) plans.get(lookedAt), here);
            looked.addAll(here.values());
        }
        return looked;
    }

    /** How a join is carried out: the side that is sent to every task, or held in a table by each; or both are sorted. */
    private static String way(SparkPlan plan) {
        if (plan instanceof BroadcastHashJoinExec) {
            return side(((BroadcastHashJoinExec) plan).buildSide()) + " sent";
        }
        if (plan instanceof BroadcastNestedLoopJoinExec) {
            return side(((BroadcastNestedLoopJoinExec) plan).buildSide()) + " sent";
        }
        if (plan instanceof ShuffledHashJoinExec) {
            return side(((ShuffledHashJoinExec) plan).buildSide()) + " held";
        }
        return plan instanceof SortMergeJoinExec ? "sorted" : "crossed";
    }

    private static String side(Object build) {
        return build == BuildLeft$.MODULE$ ? "left" : "right";
    }

    private static final class Found {
        final String name;
        final Set plans = new HashSet();
        final Set below = new TreeSet();
        final Set ways = new TreeSet();
        long rows;

        Found(String name) {
            this.name = name;
        }
    }

    /** Find what is named in a physical plan; the names of the joins in it. */
    private static Set look(SparkPlan plan, Map found) {
        Set joins = new HashSet();
        if (plan instanceof AdaptiveSparkPlanExec) {
            AdaptiveSparkPlanExec adaptive = (AdaptiveSparkPlanExec) plan;
            joins.addAll(look(adaptive.executedPlan(), found));
            // What ran and turned out to be empty is no longer in the plan, nor what would have read it.
            scala.collection.Iterator stages = adaptive.context().stageCache().valuesIterator();
            while (stages.hasNext()) {
                look((SparkPlan) stages.next(), found);
            }
        } else if (plan instanceof QueryStageExec) {
            joins.addAll(look(((QueryStageExec) plan).plan(), found));
        } else if (plan instanceof InMemoryTableScanExec) {
            joins.addAll(look(((InMemoryTableScanExec) plan).relation().cachedPlan(), found));
        } else if (plan instanceof CommandResultExec) {
            joins.addAll(look(((CommandResultExec) plan).commandPhysicalPlan(), found));
        } else if (plan instanceof ReusedExchangeExec) {
            joins.addAll(look(((ReusedExchangeExec) plan).child(), new HashMap()));
        } else {
            Seq children = plan.children();
            for (int i = 0; i < children.size(); i++) {
                joins.addAll(look((SparkPlan) children.apply(i), found));
            }
        }
        String name = nameOf(plan);
        Option rows = plan.metrics().get("numOutputRows");
        if (name != null && rows.isDefined()) {
            add(found, name, plan, ((Number) ((AccumulatorV2) rows.get()).value()).longValue(), joins);
        }
        if (name != null && plan instanceof BaseJoinExec) {
            joins.add(name);
        }
        return joins;
    }

    /**
     * An operator that Spark has pushed into each term of a sum has the rows of all. One that is computed twice has them once; an
     * aggregation is found at each of its phases, of which the last, with the fewest rows, counts.
     */
    private static void add(Map found, String name, SparkPlan plan, long rows, Set below) {
        Found known = (Found) found.get(name);
        if (known == null) {
            known = new Found(name);
            known.rows = rows;
            found.put(name, known);
        } else if (plan instanceof BaseAggregateExec) {
            known.rows = Math.min(known.rows, rows);
        } else if (!known.plans.contains(plan.canonicalized())) {
            known.rows += rows;
        }
        known.plans.add(plan.canonicalized());
        known.below.addAll(below);
        if (plan instanceof BaseJoinExec) {
            known.ways.add(way(plan));
        }
    }

    /** The name of what a physical operator carries out; null if it has none, or if it is not only that. */
    private static String nameOf(SparkPlan plan) {
        if (plan instanceof FilterExec) {
            return nameOf(((FilterExec) plan).condition());
        }
        LogicalPlan logical = plan instanceof BaseJoinExec || plan instanceof BaseAggregateExec ? logical(plan) : null;
        if (logical instanceof Join && plan instanceof BaseJoinExec) {
            Option on = ((Join) logical).condition();
            return on.isDefined() ? nameOf((Expression) on.get()) : null;
        }
        if (logical instanceof Aggregate && plan instanceof BaseAggregateExec) {
            Set names = new HashSet();
            Seq outputs = ((Aggregate) logical).aggregateExpressions();
            for (int i = 0; i < outputs.size(); i++) {
                collectAggregates((Expression) outputs.apply(i), names);
            }
            return only(names);
        }
        return null;
    }

    /** What a physical operator carries out. Of one whose input has run already, adaptive execution says that it carries that out. */
    private static LogicalPlan logical(SparkPlan plan) {
        Option link = plan.logicalLink();
        LogicalPlan found = link.isDefined() ? (LogicalPlan) link.get() : null;
        return found instanceof LogicalQueryStage ? ((LogicalQueryStage) found).logicalPlan() : found;
    }

    /** The name that all parts of a condition have, but for tests for NULL, which Spark adds; null if they have none, or several. */
    private static String nameOf(Expression condition) {
        Set names = new HashSet();
        collect(condition, names);
        return only(names);
    }

    private static String only(Set names) {
        return names.size() == 1 ? (String) names.iterator().next() : null;
    }

    private static void collectAggregates(Expression output, Set names) {
        if (output instanceof AggregateExpression) {
            Option name = output.getTagValue(NAME);
            names.add(name.isDefined() ? name.get() : null);
            return;
        }
        for (int i = 0; i < output.children().size(); i++) {
            collectAggregates((Expression) output.children().apply(i), names);
        }
    }

    private static void collect(Expression condition, Set names) {
        Option name = condition.getTagValue(NAME);
        if (name.isDefined()) {
            names.add(name.get());
        } else if (condition instanceof And) {
            collect(((And) condition).left(), names);
            collect(((And) condition).right(), names);
        } else if (!(condition instanceof IsNotNull)) {
            names.add(null);
        }
    }
}
