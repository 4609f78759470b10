// A handler: drains before an event, approves once, recovers. Usage: mono Handler.exe [BASE_URL].
// Build it with: mcs -r:System.Net.Http -r:System.Runtime.Serialization Handler.cs
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Runtime.Serialization;
using System.Runtime.Serialization.Json;
using System.Text;
using System.Threading;

[DataContract]
class Document
{
    [DataMember(IsRequired = true)] public Event[] Events = null;
}

[DataContract]
class Event
{
    [DataMember(IsRequired = true)] public string EventId = null;
    [DataMember(IsRequired = true)] public string EventStatus = null;
    [DataMember(IsRequired = true)] public string EventType = null;
    [DataMember(IsRequired = true)] public string[] Resources = null;
}

class Handler
{
    const string Name = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
    const string Events = "/metadata/scheduledevents?api-version=2020-07-01";

    // Other types need no approval.
    static readonly string[] Types = { "Freeze", "Reboot", "Redeploy", "Preempt", "Terminate" };
    static readonly string Drain = Setting("FAIRWARNING_DRAIN", "true"); // your work
    static readonly string Recover = Setting("FAIRWARNING_RECOVER", "true"); // your work
    static readonly string Memory = Path.Combine(Setting("FAIRWARNING_WORK", "."), "handler-memory"); // must survive a reboot

    readonly string address;
    readonly HttpClient http;
    readonly Dictionary<string, string> done = new Dictionary<string, string>();
    string name = "";
    int wait = 1, timeout = 150; // seconds; the first answer may take two minutes

    Handler(string address)
    {
        this.address = address;
        // No proxy: it would return the events of its own machine.
        http = new HttpClient(new HttpClientHandler { UseProxy = false }) { Timeout = Timeout.InfiniteTimeSpan };
        http.DefaultRequestHeaders.Add("Metadata", "true");
        if (File.Exists(Memory))
            done = File.ReadLines(Memory).Select(line => line.Split(' ')).ToDictionary(words => words[0], words => words[1]);
    }

    static string Setting(string key, string usual)
    {
        return Environment.GetEnvironmentVariable(key) ?? usual;
    }

    string Ask(HttpMethod method, string path, string body = null)
    {
        var request = new HttpRequestMessage(method, address + path);
        if (body != null) request.Content = new StringContent(body, Encoding.UTF8, "application/json");
        using (var limit = new CancellationTokenSource(TimeSpan.FromSeconds(timeout)))
        using (var answer = http.SendAsync(request, limit.Token).GetAwaiter().GetResult())
            return answer.EnsureSuccessStatusCode().Content.ReadAsStringAsync().GetAwaiter().GetResult();
    }

    static Event[] Parse(string text)
    {
        var reader = new DataContractJsonSerializer(typeof(Document));
        var document = (Document)reader.ReadObject(new MemoryStream(Encoding.UTF8.GetBytes(text)));
        return document.Events;
    }

    void Act(string what, string program, string id)
    {
        Console.WriteLine("{0}: {1} ({2})", name, what, id);
        using (var process = Process.Start(new ProcessStartInfo(program, id) { UseShellExecute = false }))
        {
            process.WaitForExit();
            if (process.ExitCode != 0) throw new IOException(program + " failed");
        }
    }

    void Remember(string id, string step)
    {
        done[id] = step;
        File.WriteAllLines(Memory, done.Select(entry => entry.Key + " " + entry.Value));
    }

    void Poll()
    {
        var ours = Parse(Ask(HttpMethod.Get, Events)).Where(entry => entry.Resources.Contains(name)).ToList();
        var drained = false;
        foreach (var entry in ours)
        {
            var id = entry.EventId;
            var waits = entry.EventStatus == "Scheduled" && Types.Contains(entry.EventType);
            if (!done.ContainsKey(id))
            {
                Act("draining", Drain, id);
                Remember(id, "drained");
                drained = true;
            }
            else if (entry.Resources.Length == 1 && waits && done[id] == "drained") // only our own
            {
                Ask(HttpMethod.Post, Events, "{\"StartRequests\":[{\"EventId\":\"" + id + "\"}]}");
                Remember(id, "approved");
            }
        }
        if (drained) Poll(); // look again before approving: the event may be over
        if (drained || ours.Count > 0 || done.Count == 0) return; // not before, whatever duration was announced
        foreach (var id in done.Keys) Act("back to work", Recover, id);
        done.Clear();
        File.Delete(Memory);
    }

    void Run()
    {
        while (true)
        {
            try
            {
                if (name == "") name = Ask(HttpMethod.Get, Name);
                if (name == "") throw new IOException("the machine has no name yet");
                Poll();
                wait = 1;
                timeout = 10;
            }
            catch (Exception problem) // a failed poll says nothing about events
            {
                Console.Error.WriteLine("{0}: {1}; trying again", name, problem.Message);
                wait = Math.Min(wait * 2, 8);
            }
            Thread.Sleep(TimeSpan.FromSeconds(wait));
        }
    }

    static void Main(string[] arguments)
    {
        new Handler(arguments.Length > 0 ? arguments[0] : "http://169.254.169.254").Run();
    }
}
